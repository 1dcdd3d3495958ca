"""What goes over the wire, byte for byte, as the simulator and gym-donkeycar write it."""

GYM_CLIENT = [
    b'{"msg_type": "get_scene_names"}',
    b'{"msg_type": "load_scene", "scene_name": "generated_track"}',
    b'{"msg_type": "control", "steering": "0", "throttle": "0", "brake": "1.0"}',
    b'{"msg_type": "car_config", "body_style": "donkey", "body_r": "128", "body_g": "128", '
    b'"body_b": "128", "car_name": "me", "font_size": "100"}',
    b'{"msg_type": "cam_config", "fov": "0", "fish_eye_x": "0.0", "fish_eye_y": "0.0", '
    b'"img_w": "160", "img_h": "120", "img_d": "3", "img_enc": "0", "offset_x": "0.0", '
    b'"offset_y": "0.0", "offset_z": "0.0", "rot_x": "0.0", "rot_y": "0.0", "rot_z": "0.0"}',
    b'{"msg_type": "cam_config_b", "fov": "80", "fish_eye_x": "0.0", "fish_eye_y": "0.0", '
    b'"img_w": "64", "img_h": "64", "img_d": "1", "img_enc": "PNG", "offset_x": "0.0", '
    b'"offset_y": "2.0", "offset_z": "0.0", "rot_x": "20.0", "rot_y": "0.0", "rot_z": "0.0"}',
    b'{"msg_type": "lidar_config", "degPerSweepInc": "2.0", "degAngDown": "0.0", '
    b'"degAngDelta": "-1.0", "numSweepsLevels": "1", "maxRange": "50.0", "noise": "0.5", '
    b'"offset_x": "0.0", "offset_y": "0.5", "offset_z": "0.5", "rot_x": "0.0"}',
    b'{"msg_type": "reset_car"}',
    b'{"msg_type": "control", "steering": "-0.25", "throttle": "0.5", "brake": "0.0"}',
    b'{"msg_type": "exit_scene"}',
]
"""A session of gym-donkeycar: menu, configuration, reset, a step, and back to the menu."""

TOOLS = [
    b'{"msg_type":"get_protocol_version"}',
    b'{ "msg_type" : "regen_road", "road_style" : "0", "rand_seed" : "7", "turn_increment" : "0" }',
    b'{"msg_type":"set_position","pos_x":"49.7","pos_y":"0.6","pos_z":"47.8","Qx":"0","Qy":"1",'
    b'"Qz":"0","Qw":"0"}',
    b'{"msg_type":"node_position","index":"3"}',
    b'{"msg_type":"step_mode","step_mode":"synchronous","time_step":"0.05"}',
    b'{"msg_type":"quit_app"}',
]
"""What other tools send."""

SIMULATOR = [
    b'{"msg_type":"scene_selection_ready","loaded":"1"}',
    b'{"scene_names":["generated_road","warehouse","waveshare"],"msg_type":"scene_names"}',
    b'{"msg_type":"protocol_version","version":"2"}',
    b'{"msg_type":"car_loaded"}',
    b'{"msg_type":"telemetry","steering_angle":0,"throttle":0.5,"image":"aGVsbG8=",'
    b'"front_left_odom":1.5,"front_right_odom":1.25,"rear_left_odom":1.5,"rear_right_odom":1.25,'
    b'"hit":"none","time":12.34,"speed":1.25,"accel_x":0.1,"accel_y":0,"accel_z":-0.2,'
    b'"gyro_x":0,"gyro_y":0.3,"gyro_z":1E-05,"pitch":359.9,"yaw":90.5,"roll":0.1,"cte":-1.5,'
    b'"activeNode":3,"totalNodes":108,"pos_x":6.2,"pos_y":0.07,"pos_z":5.9,"vel_x":0.01,'
    b'"vel_y":0,"vel_z":1.24}',
    b"{}",
    b'{"msg_type":"node_position","index":3,"pos_x":49.7,"pos_y":0.5,"pos_z":53.8,"Qx":0,'
    b'"Qy":0.5,"Qz":0,"Qw":0.8660254}',
    b'{"msg_type":"collision_with_starting_line","starting_line_index":0,"timeStamp":31.5}',
]
"""What the simulator sends: menu, scene, one frame, keep-alive, a node, a lap."""
